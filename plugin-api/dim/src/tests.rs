//! Tests of the sizes' arithmetic and text.

use super::*;

fn expr(text: &str) -> Expr {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn texts_have_one_normal_form() {
    let cases = [
        ("batch*12", "batch*12"),
        ("12*batch", "batch*12"),
        ("seq*batch + batch*seq - 1 + 4", "batch*seq*2 + 3"),
        ("(a + b)*(a - b)", "a*a - b*b"),
        ("a - a", "0"),
        ("-a + 3", "-a + 3"),
        ("3 - 2*a", "-a*2 + 3"),
        ("(batch*12)//12", "batch"),
        ("(batch*12 + 24)//12", "batch + 2"),
        ("batch*seq*12//(seq*4)", "batch*3"),
        ("(a*b + a)//(b + 1)", "a"),
        ("floor((h - 1)/2) + 1", "floor((h + 1)/2)"),
        ("floor(floor(h/2)/2)", "floor(h/4)"),
        ("floor((floor((h - 1)/2) + 3)/2)", "floor((h + 1)/4) + 1"),
        ("(2*a + 1)//4", "floor(a/2)"),
        ("ceil(h/2)", "floor((h + 1)/2)"),
        ("ceil(h*4/2)", "h*2"),
        ("a//b", "floor(a/b)"),
        ("(a + 1)//(b*2)", "floor((a + 1)/(b*2))"),
        ("a//(0 - 2)", "floor((-a)/2)"),
        ("Max(1, s0)", "max(1, s0)"),
        ("max(a, a + 1)", "a + 1"),
        ("max(0, a)", "a"),
        ("max(0, n - min(1, n))", "n - min(1, n)"),
        ("min(s, max(0, s - 1))", "max(0, s - 1)"),
        ("max(0, h - h//2*2)", "h - floor(h/2)*2"),
        ("max(0, h - (h + 1)//2)", "max(0, h - floor((h + 1)/2))"),
        ("min(a, b)", "min(a, b)"),
        ("min(b, a)", "min(a, b)"),
        ("'my dim'*2", "'my dim'*2"),
        ("'it''s'", ""),
        ("'a\\'b' + 1", "'a\\'b' + 1"),
        ("'plain'", "plain"),
        ("'max' + 'floor'", "'floor' + 'max'"),
        ("unk__1 + x.y", "unk__1 + x.y"),
    ];
    for (text, normal) in cases {
        if normal.is_empty() {
            assert!(text.parse::<Expr>().is_err(), "{text}");
            continue;
        }
        let found = expr(text).to_string();
        assert_eq!(found, normal, "{text}");
        assert_eq!(expr(&found).to_string(), found, "{text} does not survive a second reading");
        assert_eq!(expr(&found), expr(text));
    }
}

#[test]
fn bad_texts_are_errors() {
    let deep = "(".repeat(10_000);
    let wide = format!("({})", vec!["(a+b+c+d)"; 40].join("*"));
    let many = "a*".repeat(5000) + "a";
    for text in ["", "a +", "a / 2", "floor(a)", "f(a)", "9999999999999999999", "a b", "'a", "1a", &deep, &wide, &many]
    {
        assert!(text.parse::<Expr>().is_err(), "{text}");
    }
    assert!("9223372036854775807 + 1".parse::<Expr>().is_err());
    assert!("a*9223372036854775807*3".parse::<Expr>().is_err());
    assert!("a//0".parse::<Expr>().is_err());
}

#[test]
fn every_name_becomes_a_dim_that_can_be_read() {
    let names = ["batch", "batch size", "1", "", "a'b\\c", "Größe", "max", "past + 1", "-1", "f(x)", "a\nb", "unk__42"];
    for name in names {
        let dim = symbol(name);
        let back = Expr::of(&dim).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(back.to_dim(), Ok(dim), "{name}");
    }
    assert_eq!(symbol("past+1"), Dim::Symbolic("past + 1".into()));
    assert_eq!(symbol("batch size"), Dim::Symbolic("'batch size'".into()));
    assert_eq!(symbol("-1"), Dim::Symbolic("'-1'".into()));
}

#[test]
fn values_under_sizes() {
    let sizes = HashMap::from([("a".to_owned(), 7), ("my dim".to_owned(), 3)]);
    let cases = [
        ("a*'my dim' + 1", 22),
        ("floor((a - 1)/4)", 1),
        ("floor((0 - a)/4) + 2", 0),
        ("max(a, 'my dim')", 7),
        ("min(a, 2)", 2),
    ];
    for (text, value) in cases {
        assert_eq!(eval(text, &sizes), Ok(value), "{text}");
    }
    assert_eq!(
        eval("2 - a", &sizes).map_err(|e| e.message),
        Err("the size '2 - a' comes to -5, which is negative".into())
    );
    assert_eq!(eval("b", &sizes).map_err(|e| e.kind), Err(DimErrorKind::Unknown));
    assert!(eval("a//('my dim' - 3)", &sizes).is_err());
    assert!(eval("a*9223372036854775807", &sizes).is_err());
}

#[test]
fn binding_solves_for_one_symbol() {
    let mut sizes = HashMap::new();
    assert_eq!(bind("batch*seq", 12, &mut sizes), Ok(false));
    assert_eq!(bind("batch", 3, &mut sizes), Ok(true));
    assert_eq!(bind("seq*2 + 1", 9, &mut sizes), Ok(true));
    assert_eq!(sizes.get("seq"), Some(&4));
    assert_eq!(bind("batch*seq", 12, &mut sizes), Ok(true));
    assert_eq!(
        bind("batch", 4, &mut sizes).map_err(|e| e.message),
        Err("the size 'batch' is 4, but the other inputs make it 3".into())
    );
    assert_eq!(bind("n*2", 3, &mut sizes).map_err(|e| e.kind), Err(DimErrorKind::Contradiction));
    assert_eq!(bind("floor(k/2)", 3, &mut sizes), Ok(false));
}

#[test]
fn broadcasting() {
    let (a, b, long) = (symbol("a"), symbol("b"), symbol("a + 1"));
    let n = Dim::Fixed;
    let cases = [
        (vec![n(2), n(3)], vec![n(3)], Some(vec![n(2), n(3)])),
        (vec![n(3)], vec![n(2), n(1)], Some(vec![n(2), n(3)])),
        (vec![n(2)], vec![n(3)], None),
        (vec![a.clone()], vec![n(1)], Some(vec![a.clone()])),
        (vec![a.clone()], vec![n(4)], Some(vec![n(4)])),
        (vec![a.clone()], vec![b.clone()], Some(vec![a.clone()])),
        (vec![b.clone()], vec![n(5), a.clone()], Some(vec![n(5), b.clone()])),
        (vec![long], vec![b.clone()], Some(vec![b.clone()])),
        (vec![n(0)], vec![n(1)], Some(vec![n(0)])),
    ];
    for (x, y, expected) in cases {
        assert_eq!(broadcast(&x, &y), expected, "{x:?} {y:?}");
    }
}

#[test]
fn comparisons_that_hold_for_every_size() {
    assert_eq!(expr("batch").equals(&expr("0 - 1")), Ok(Some(false)));
    assert_eq!(expr("batch").equals(&expr("1")), Ok(None));
    assert_eq!(expr("batch + 2").equals(&expr("batch + 2")), Ok(Some(true)));
    assert_eq!(expr("batch + 2").equals(&expr("batch")), Ok(Some(false)));
    assert_eq!(expr("a").less_than(&expr("a + 1")), Ok(Some(true)));
    assert_eq!(expr("a").less_than(&expr("0")), Ok(Some(false)));
    assert_eq!(expr("a").less_than(&expr("3")), Ok(None));
}

#[test]
fn the_least_number_overflows_into_an_error() {
    let (least, minus_one) = (Expr::from(i64::MIN), Expr::from(-1));
    assert!(least.exact_div(&minus_one).is_err());
    assert!(least.floor_div(&minus_one).is_err());
    assert!(least.scale(-1).is_err());
    assert_eq!(least.floor_div(&Expr::from(2)), Ok(Expr::from(i64::MIN / 2)));
}

#[test]
fn dims_are_read_from_sizes_and_texts() {
    use serde::Deserialize;
    use serde::de::IntoDeserializer;
    use serde::de::value::Error;

    fn read<'de>(value: impl IntoDeserializer<'de, Error>) -> std::result::Result<Dim, String> {
        Dim::deserialize(value.into_deserializer()).map_err(|error| error.to_string())
    }

    assert_eq!([read(7u64), read(7i64)], [Ok(Dim::Fixed(7)), Ok(Dim::Fixed(7))]);
    assert_eq!(read("batch*2"), Ok(Dim::Symbolic("batch*2".into())));
    let refused = |found: &str| Err(format!("invalid {found}, expected a size, or the text of an expression"));
    assert_eq!(read(-1i64), refused("value: integer `-1`"));
    assert_eq!(read(1.5), refused("type: floating point `1.5`"));
    assert_eq!(read(()), refused("type: unit value"));
}
