"""The command line: one file per verb. Concrete objects are chosen here and handed down."""
