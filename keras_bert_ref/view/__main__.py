from keras_bert_ref.view.flags import command

command()
