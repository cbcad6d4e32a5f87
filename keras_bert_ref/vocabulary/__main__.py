from keras_bert_ref.vocabulary.flags import command

command()
