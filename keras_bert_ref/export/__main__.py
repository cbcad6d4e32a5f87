from keras_bert_ref.export.flags import command

command()
