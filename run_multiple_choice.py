"""Chooses the right one of several texts; see keras_bert_ref/choice/run.py."""

from keras_bert_ref.choice.flags import command

if __name__ == "__main__":
    command()
