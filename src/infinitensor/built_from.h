/* Before every C file that `setup.py` builds: what a built file holds for `fixed_c.py` to compare with its sources. */
const char infinitensor_built_from[] = BUILT_FROM;
