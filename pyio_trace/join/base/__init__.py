"""What every part of the join uses: the operation table, Arrow arrays, dictionaries, threads."""
