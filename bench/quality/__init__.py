"""What crawls find and how right judgements are, on webs whose truth is known."""
