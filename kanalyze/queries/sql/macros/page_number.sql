-- The number of a name on the page; -1, for others, beyond the `most` that are listed.
CREATE TEMP MACRO page_number(number, most) AS CASE WHEN number < most THEN number ELSE -1 END
