// CRC32C (Castagnoli) by the instruction of ARM or x86.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__ARM_FEATURE_CRC32)
#include <arm_acle.h>
#include <asm/hwcap.h>
#include <sys/auxv.h>
#define STEP8(crc, word) __crc32cd((crc), (word))
#define STEP1(crc, byte) __crc32cb((crc), (byte))
#elif defined(__SSE4_2__)
#include <nmmintrin.h>
#define STEP8(crc, word) (uint32_t)_mm_crc32_u64((crc), (word))
#define STEP1(crc, byte) _mm_crc32_u8((crc), (byte))
#else
#error "compiled for processors without the instruction"
#endif

// Whether this processor has it: what was built for all machines of a kind may run on one that has not.
int has_instruction(void) {
#if defined(__x86_64__)
    return __builtin_cpu_supports("sse4.2") != 0;
#else
    return (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
#endif
}

static uint64_t word_at(const uint8_t *p) {
    uint64_t word;
    memcpy(&word, p, 8);
    return word;
}

// An instruction takes two or three cycles and one can start in each: three lanes run side by side.
// A lane's value is moved past the bytes of the lanes after it by a matrix over bits, as tables.
enum { LANE = 1360 };  // bytes, a multiple of 8
static uint32_t shift1[4][256], shift2[4][256];
static int ready;

static uint32_t past_zeros(uint32_t crc, size_t n) {
    for (; n >= 8; n -= 8) crc = STEP8(crc, 0);
    return crc;
}

static void make_tables(void) {
    for (int byte = 0; byte < 4; byte++)
        for (uint32_t value = 0; value < 256; value++) {
            shift1[byte][value] = past_zeros(value << (8 * byte), LANE);
            shift2[byte][value] = past_zeros(value << (8 * byte), 2 * LANE);
        }
    __atomic_store_n(&ready, 1, __ATOMIC_RELEASE);  // the same numbers, whoever writes them
}

static uint32_t shifted(uint32_t table[4][256], uint32_t crc) {
    return table[0][crc & 255] ^ table[1][crc >> 8 & 255] ^ table[2][crc >> 16 & 255]
         ^ table[3][crc >> 24];
}

static uint32_t all(uint32_t crc, const uint8_t *p, size_t n) {
    for (; n >= 3 * LANE; n -= 3 * LANE, p += 3 * LANE) {
        uint32_t b = 0, c = 0;
        for (size_t i = 0; i < LANE; i += 8) {
            crc = STEP8(crc, word_at(p + i));
            b = STEP8(b, word_at(p + LANE + i));
            c = STEP8(c, word_at(p + 2 * LANE + i));
        }
        crc = shifted(shift2, crc) ^ shifted(shift1, b) ^ c;
    }
    for (; n >= 8; n -= 8, p += 8) crc = STEP8(crc, word_at(p));
    for (; n; n--, p++) crc = STEP1(crc, *p);
    return crc;
}

// One value for each block of `n_block` bytes, the last one shorter; each goes on from `crc`.
void crc32c_blocks(const uint8_t *p, size_t n, size_t n_block, uint32_t crc, uint32_t *out) {
    if (!__atomic_load_n(&ready, __ATOMIC_ACQUIRE)) make_tables();
    for (size_t at = 0; at < n; at += n_block) {
        size_t length = n - at < n_block ? n - at : n_block;
        *out++ = ~all(~crc, p + at, length);
    }
}
