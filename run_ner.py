"""Finds names in text, or tags words in other ways; see
keras_bert_ref/ner/run.py."""

from keras_bert_ref.ner.flags import command

if __name__ == "__main__":
    command()
