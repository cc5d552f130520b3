/* Written by tools/polynomials.py. */

/* 6 terms, error 2^-31.9 */
#define EXP_f32(x) fmaf(fmaf(fmaf(0x1.a1256a0000000p-13f, ((x) * (x)), 0x1.1110e00000000p-7f), ((x) * (x)), 0x1.5555560000000p-3f), (x), fmaf(fmaf(0x1.6d43ac0000000p-10f, ((x) * (x)), 0x1.5554e80000000p-5f), ((x) * (x)), 0x1.0000000000000p-1f))

/* 7 terms, error 2^-32.9 */
#define EXP2_f32(x) fmaf(fmaf(fmaf(0x1.4441400000000p-13f, ((x) * (x)), 0x1.3b2a1a0000000p-7f), ((x) * (x)), 0x1.ebfbe00000000p-3f), (x), fmaf(fmaf(fmaf(0x1.00a6460000000p-16f, ((x) * (x)), 0x1.5d879e0000000p-10f), ((x) * (x)), 0x1.c6b08e0000000p-5f), ((x) * (x)), 0x1.62e4300000000p-1f))

/* 10 terms, error 2^-30.0 */
#define LOG1_f32(x) fmaf(fmaf(fmaf(fmaf(fmaf(-0x1.fc06e20000000p-5f, ((x) * (x)), -0x1.b4116a0000000p-4f), ((x) * (x)), -0x1.fdfb820000000p-4f), ((x) * (x)), -0x1.555c540000000p-3f), ((x) * (x)), -0x1.fffff20000000p-3f), (x), fmaf(fmaf(fmaf(fmaf(0x1.af581e0000000p-4f, ((x) * (x)), 0x1.c41b8c0000000p-4f), ((x) * (x)), 0x1.2496880000000p-3f), ((x) * (x)), 0x1.9999a80000000p-3f), ((x) * (x)), 0x1.5555560000000p-2f))

/* 4 terms, error 2^-35.6 */
#define SIN_f32(x) fmaf(fmaf(fmaf(0x1.6dbbfa0000000p-19f, (x), -0x1.a013a20000000p-13f), (x), 0x1.11110e0000000p-7f), (x), -0x1.5555560000000p-3f)

/* 3 terms, error 2^-29.7 */
#define COS_f32(x) fmaf(fmaf(0x1.9bd67e0000000p-16f, (x), -0x1.6c12d00000000p-10f), (x), 0x1.5555540000000p-5f)

/* 6 terms, error 2^-30.4 */
#define TANH_f32(x) fmaf(fmaf(fmaf(0x1.2c645e0000000p-9f, ((x) * (x)), 0x1.64a8680000000p-6f), ((x) * (x)), 0x1.1110e80000000p-3f), (x), fmaf(fmaf(-0x1.1163280000000p-7f, ((x) * (x)), -0x1.ba08b40000000p-5f), ((x) * (x)), -0x1.5555560000000p-2f))

/* 5 terms, error 2^-28.4 */
#define ATAN_f32(x) fmaf(fmaf(0x1.b8033e0000000p-4f, ((x) * (x)), 0x1.99972c0000000p-3f), (x), fmaf(fmaf(-0x1.081a7e0000000p-4f, ((x) * (x)), -0x1.241f9c0000000p-3f), ((x) * (x)), -0x1.5555540000000p-2f))

/* 11 terms, error 2^-61.8 */
#define EXP_f64(x) fma(fma(fma(fma(fma(0x1.af4e5274a366cp-26, ((x) * (x)), 0x1.71de01ff19a6bp-19), ((x) * (x)), 0x1.a01a01abf7ed6p-13), ((x) * (x)), 0x1.11111111100bep-7), ((x) * (x)), 0x1.5555555555557p-3), (x), fma(fma(fma(fma(fma(0x1.1f733f411b727p-29, ((x) * (x)), 0x1.27e4db47938d1p-22), ((x) * (x)), 0x1.a01a01a6e1a43p-16), ((x) * (x)), 0x1.6c16c16c162c3p-10), ((x) * (x)), 0x1.5555555555556p-5), ((x) * (x)), 0x1.0000000000000p-1))

/* 12 terms, error 2^-62.8 */
#define EXP2_f64(x) fma(fma(fma(fma(fma(fma(0x1.c4a37e478b25dp-36, ((x) * (x)), 0x1.e4cf105a3a015p-28), ((x) * (x)), 0x1.62c02242d24bcp-20), ((x) * (x)), 0x1.430912f86b79ap-13), ((x) * (x)), 0x1.3b2ab6fba4e79p-7), ((x) * (x)), 0x1.ebfbdff82c58fp-3), (x), fma(fma(fma(fma(fma(0x1.e9ed48b35dbf1p-32, ((x) * (x)), 0x1.b524eb29e2f30p-24), ((x) * (x)), 0x1.ffcbfc6de821dp-17), ((x) * (x)), 0x1.5d87fe78a3ef9p-10), ((x) * (x)), 0x1.c6b08d704a0c6p-5), ((x) * (x)), 0x1.62e42fefa39efp-1))

/* 7 terms, error 2^-57.6 */
#define LOG_f64(x) fma(fma(fma(0x1.39fd25d62ab23p-3, ((x) * (x)), 0x1.c71c62c42db89p-3), ((x) * (x)), 0x1.99999999951f5p-2), (x), fma(fma(fma(0x1.2b6776a1bf0b9p-3, ((x) * (x)), 0x1.7462be245eae3p-3), ((x) * (x)), 0x1.2492492e0b70cp-2), ((x) * (x)), 0x1.5555555555558p-1))

/* 7 terms, error 2^-66.7 */
#define SIN_f64(x) fma(fma(fma(0x1.61217c2a1e369p-33, ((x) * (x)), 0x1.71de3a545e7cfp-19), ((x) * (x)), 0x1.1111111111110p-7), (x), fma(fma(fma(-0x1.ab1621c546902p-41, ((x) * (x)), -0x1.ae64540f2209ep-26), ((x) * (x)), -0x1.a01a01a019927p-13), ((x) * (x)), -0x1.5555555555555p-3))

/* 6 terms, error 2^-60.3 */
#define COS_f64(x) fma(fma(fma(-0x1.907c17e2f080fp-37, ((x) * (x)), -0x1.27e4fa15ca346p-22), ((x) * (x)), -0x1.6c16c16c16960p-10), (x), fma(fma(0x1.1eeb66c3b8406p-29, ((x) * (x)), 0x1.a01a019f4d18ap-16), ((x) * (x)), 0x1.5555555555555p-5))

/* 7 terms, error 2^-61.5 */
#define SINH_f64(x) fma(fma(fma(0x1.611caf3d7bfe1p-33, ((x) * (x)), 0x1.71de3a4e0d67dp-19), ((x) * (x)), 0x1.11111111110fdp-7), (x), fma(fma(fma(0x1.b413a2632a732p-41, ((x) * (x)), 0x1.ae646102f8d4bp-26), ((x) * (x)), 0x1.a01a01a01eed5p-13), ((x) * (x)), 0x1.5555555555555p-3))

/* 12 terms, error 2^-59.0 */
#define TANH_f64(x) fma(fma(fma(fma(fma(fma(0x1.b2db5e7bcc919p-18, ((x) * (x)), 0x1.843b2fbaf5a4dp-14), ((x) * (x)), 0x1.3526b6d281e18p-11), ((x) * (x)), 0x1.d6d39a9164633p-9), ((x) * (x)), 0x1.664f487e00f92p-6), ((x) * (x)), 0x1.11111111110a7p-3), (x), fma(fma(fma(fma(fma(-0x1.05a480ded4603p-15, ((x) * (x)), -0x1.f240ed439921ep-13), ((x) * (x)), -0x1.7d9f6a1406a56p-10), ((x) * (x)), -0x1.226e34723e97bp-7), ((x) * (x)), -0x1.ba1ba1ba0ef60p-5), ((x) * (x)), -0x1.5555555555555p-2))

/* 11 terms, error 2^-57.3 */
#define ATAN_f64(x) fma(fma(fma(fma(fma(0x1.4131236eb5fb9p-5, ((x) * (x)), 0x1.dfe2ffbc6d11cp-5), ((x) * (x)), 0x1.3b125f9410e02p-4), ((x) * (x)), 0x1.c71c71844dc2dp-4), ((x) * (x)), 0x1.999999999932ep-3), (x), fma(fma(fma(fma(fma(-0x1.39b84b9e44754p-6, ((x) * (x)), -0x1.a0886bc8cce76p-5), ((x) * (x)), -0x1.10fa4732829ddp-4), ((x) * (x)), -0x1.745d0b02a4662p-4), ((x) * (x)), -0x1.2492492434a23p-3), ((x) * (x)), -0x1.5555555555555p-2))

/* 13 terms, error 2^-57.9 */
#define ASIN_f64(x) fma(fma(fma(fma(fma(fma(-0x1.e6aaa8a0a04ccp-7, ((x) * (x)), 0x1.65a9c4dfcf8b2p-8), ((x) * (x)), 0x1.782651caa6547p-7), ((x) * (x)), 0x1.1c4d35cf95421p-6), ((x) * (x)), 0x1.f1c71c1db0623p-6), ((x) * (x)), 0x1.3333333332ecap-4), (x), fma(fma(fma(fma(fma(fma(0x1.d72b2bc8155f8p-6, ((x) * (x)), 0x1.1d189408314eep-6), ((x) * (x)), 0x1.52420b04b37bep-7), ((x) * (x)), 0x1.c9cf07674736ap-7), ((x) * (x)), 0x1.6e8bb1c8209a2p-6), ((x) * (x)), 0x1.6db6db6e31f13p-5), ((x) * (x)), 0x1.5555555555556p-3))

/* 6 terms, error 2^-31.9 */
#define EXP_short(x) fma(fma(fma(0x1.a125699d40745p-13, ((x) * (x)), 0x1.1110e0c6f09a7p-7), ((x) * (x)), 0x1.5555555a7fdd4p-3), (x), fma(fma(0x1.6d43ab7b37bacp-10, ((x) * (x)), 0x1.5554e8a4c7530p-5), ((x) * (x)), 0x1.0000000ba0c7ap-1))

/* 10 terms, error 2^-30.0 */
#define LOG1_short(x) fma(fma(fma(fma(fma(-0x1.fc06e23f24c52p-5, ((x) * (x)), -0x1.b41169121523ap-4), ((x) * (x)), -0x1.fdfb819bdf7d6p-4), ((x) * (x)), -0x1.555c54f28073fp-3), ((x) * (x)), -0x1.fffff2f287aa1p-3), (x), fma(fma(fma(fma(0x1.af581ec85fd64p-4, ((x) * (x)), 0x1.c41b8c17988c8p-4), ((x) * (x)), 0x1.249688a87fe4dp-3), ((x) * (x)), 0x1.9999a71335a12p-3), ((x) * (x)), 0x1.5555554c6073bp-2))

#define LN2_f32_1 0x1.62e4300000000p-1f
#define LN2_f32_2 -0x1.05c6100000000p-29f
#define LN2_f32_3 -0x1.950d880000000p-54f

#define LOG10_2_f32_1 0x1.3441360000000p-2f
#define LOG10_2_f32_2 -0x1.ec10c00000000p-27f
#define LOG10_2_f32_3 -0x1.0cee0e0000000p-54f

#define LOG2_E_f32_1 0x1.7154760000000p+0f
#define LOG2_E_f32_2 0x1.4ae0c00000000p-26f
#define LOG2_E_f32_3 -0x1.e888300000000p-52f

#define LOG10_E_f32_1 0x1.bcb7b20000000p-2f
#define LOG10_E_f32_2 -0x1.5b235e0000000p-27f
#define LOG10_E_f32_3 -0x1.cd59540000000p-54f

#define PI_2_f32_1 0x1.921fb60000000p+0f
#define PI_2_f32_2 -0x1.777a5c0000000p-25f
#define PI_2_f32_3 -0x1.ee59da0000000p-50f

#define LN2_f64_1 0x1.62e42fefa39efp-1
#define LN2_f64_2 0x1.abc9e3b39803fp-56
#define LN2_f64_3 0x1.7b57a079a1934p-111

#define LOG10_2_f64_1 0x1.34413509f7800p-2
#define LOG10_2_f64_2 0x1.fef311f12b358p-46
#define LOG10_2_f64_3 0x1.6f922f04d5a62p-102

#define LOG2_E_f64_1 0x1.71547652b82fep+0
#define LOG2_E_f64_2 0x1.777d0ffda0d24p-56
#define LOG2_E_f64_3 -0x1.60bb8a5442ab9p-110

#define LOG10_E_f64_1 0x1.bcb7b1526e50ep-2
#define LOG10_E_f64_2 0x1.95355baaafad3p-57
#define LOG10_E_f64_3 0x1.ee191f71a3012p-112

#define PI_2_f64_1 0x1.921fb54442d18p+0
#define PI_2_f64_2 0x1.1a62633145c07p-54
#define PI_2_f64_3 -0x1.f1976b7ed8fbcp-110
