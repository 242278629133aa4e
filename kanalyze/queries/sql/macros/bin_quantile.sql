-- A percentile by nearest rank, of amounts that are counted in bins.
--
-- It is an aggregate of lines with a bin each: `many` amounts from `lowest` to `highest`, `up_to`
-- amounts up to this bin, `of_all` in all bins. If a rank is the first or the last of its bin, the
-- amount is the bin's minimum or maximum, otherwise the middle between them. So it is exact for bins
-- with two amounts, and as exact as the bins otherwise.
CREATE TEMP MACRO bin_quantile(percentage, many, up_to, of_all, lowest, highest) AS
    max(
        CASE
            WHEN (of_all * percentage + 99) // 100 = up_to - many + 1 THEN lowest
            WHEN (of_all * percentage + 99) // 100 = up_to THEN highest
            ELSE lowest + (highest - lowest) // 2
        END
    ) FILTER (WHERE (of_all * percentage + 99) // 100 BETWEEN up_to - many + 1 AND up_to)
