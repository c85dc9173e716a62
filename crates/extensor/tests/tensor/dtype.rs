//! The types of elements.

use extensor::DType;

#[test]
fn promotion_is_the_array_api_standards_table() {
    use DType::*;
    let expected = [
        (I8, I8, Some(I8)),
        (I8, I64, Some(I64)),
        (U8, U16, Some(U16)),
        (I8, U8, Some(I16)),
        (I16, U8, Some(I16)),
        (I8, U16, Some(I32)),
        (I8, U32, Some(I64)),
        (I64, U32, Some(I64)),
        (I64, U64, None),
        (I8, U64, None),
        (F32, F64, Some(F64)),
        (F16, F32, Some(F32)),
        (BF16, F32, Some(F32)),
        (F16, BF16, Some(F32)),
        (Bool, Bool, Some(Bool)),
        (Bool, I8, None),
        (I64, F32, None),
    ];
    for (a, b, want) in expected {
        assert_eq!(a.promote(b), want, "{a} with {b}");
        assert_eq!(b.promote(a), want, "{b} with {a}");
    }
}

#[test]
fn every_type_is_found_by_its_name() {
    for dtype in DType::ALL {
        assert_eq!(DType::from_name(dtype.name()), Some(dtype));
    }
    assert_eq!(DType::from_name("f31"), None);
}
