from keras_bert_ref.korean.flags import command

command()
