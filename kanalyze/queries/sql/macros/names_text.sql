-- The different ones of some texts, in order: an aggregate.
CREATE TEMP MACRO names_text(name) AS array_to_string(list_sort(list(DISTINCT name)), ', ')
