-- A number and what it counts: `1 client`, `2 clients`.
CREATE TEMP MACRO number_text(number, noun) AS
    concat(number, ' ', noun, CASE WHEN number = 1 THEN '' ELSE 's' END)
