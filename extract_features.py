"""Writes vectors of tokens or lines; see keras_bert_ref/features/run.py."""

from keras_bert_ref.features.flags import command

if __name__ == "__main__":
    command()
