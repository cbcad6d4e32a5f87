"""An older name of the command keras_bert_ref.squad.metrics."""

from keras_bert_ref.squad.metrics import main

if __name__ == "__main__":
    main()
