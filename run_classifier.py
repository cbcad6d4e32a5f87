"""Fine-tunes a BERT on sentences or pairs; see
keras_bert_ref/classifier/run.py."""

from keras_bert_ref.classifier.flags import command

if __name__ == "__main__":
    command()
