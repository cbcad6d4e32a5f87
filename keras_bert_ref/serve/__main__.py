from keras_bert_ref.serve.flags import command

command()
