"""Does the suite bite?  Lists of small changes of meaning, and what runs the tests against each."""
