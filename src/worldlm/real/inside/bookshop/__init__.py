"""A bookshop's back office: authors, genres, books, customers, orders."""

TITLE = "Harbour Books"
