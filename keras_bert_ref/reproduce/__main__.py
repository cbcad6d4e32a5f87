from keras_bert_ref.reproduce.flags import command

command()
