"""Makes TFRecords from text; see keras_bert_ref/pretraining/create_data.py."""

from keras_bert_ref.pretraining.create_data_flags import command

if __name__ == "__main__":
    command()
