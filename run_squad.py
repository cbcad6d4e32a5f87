"""Answers questions with spans of text; see keras_bert_ref/squad/run.py."""

from keras_bert_ref.squad.flags import command

if __name__ == "__main__":
    command()
