"""Published results of BERT, made again: one command, ours beside theirs."""
