"""Pre-trains a BERT; see keras_bert_ref/pretraining/run.py."""

from keras_bert_ref.pretraining.flags import command

if __name__ == "__main__":
    command()
