from keras_bert_ref.download.flags import command

command()
