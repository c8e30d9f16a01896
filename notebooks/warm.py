# Rebuilds warm.
# Reads weather-until-2014.txt

# cell 1 (user)
import pandas as pd
weather = pd.read_csv("weather-until-2014.txt", parse_dates=["date"])
weather["month"] = weather["date"].dt.month

# cell of turn 1 (agent)
mean_temp_max_by_month = (
    weather
    .groupby("month")["temp_max"]
    .mean()
    .reset_index(name="mean_temp_max")
)

# cell 3 (user)
warm = mean_temp_max_by_month.query("mean_temp_max > 20")
