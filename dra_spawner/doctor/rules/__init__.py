"""Rules of an examination, one module for each subject: facts in, findings out."""
