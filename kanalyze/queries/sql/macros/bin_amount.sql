-- The middle of a bin of `amount_bin`, as a whole number.
CREATE TEMP MACRO bin_amount(bin) AS sign(bin) * round(exp((abs(bin) + 0.5) / 252) - 1)
