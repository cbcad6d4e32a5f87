from keras_bert_ref.demo.flags import command

command()
