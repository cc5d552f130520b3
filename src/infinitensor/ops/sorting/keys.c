/* Keys: unsigned integers whose order is NumPy's order of the values, NaN last. T is the element, BITS its width. */

#include <string.h>

#if BITS == 8
typedef uint8_t U;
typedef int8_t S;
#elif BITS == 16
typedef uint16_t U;
typedef int16_t S;
#elif BITS == 32
typedef uint32_t U;
typedef int32_t S;
#else
typedef uint64_t U;
typedef int64_t S;
#endif

#define TOP ((U)((U)1 << (BITS - 1)))

static inline U key_of(T value) {
    U bits;
    memcpy(&bits, &value, sizeof bits);
#if IS_FLOAT
    U key = bits ^ ((U)-(bits >> (BITS - 1)) | TOP);
    return value != value ? (U)~(U)0 : key;
#elif IS_SIGNED
    return bits ^ TOP;
#else
    return bits;
#endif
}

static inline T value_of(U key) {
#if IS_FLOAT
    key ^= key & TOP ? TOP : (U)~(U)0;
#elif IS_SIGNED
    key ^= TOP;
#endif
    T value;
    memcpy(&value, &key, sizeof value);
    return value;
}

static inline U stable_key_of(T value) {
#if IS_FLOAT
    return value == 0 ? TOP : key_of(value);
#else
    return key_of(value);
#endif
}

#define SHORT 32

/* For lines too short to pay for counting. */
static void insert_keys(U *keys, int64_t n) {
    for (int64_t i = 1; i < n; i++) {
        U key = keys[i];
        int64_t at = i;
        for (; at > 0 && keys[at - 1] > key; at--) keys[at] = keys[at - 1];
        keys[at] = key;
    }
}
