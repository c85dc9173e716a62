use extensor::ops::catalogue::CATALOGUE;
use extensor_cli::reference::latex::{self, Piece};
use math_core::{LatexToMathML, MathCoreConfig, MathDisplay};
#[test]
fn zz() {
    let converter = LatexToMathML::new(MathCoreConfig::default()).unwrap();
    for record in CATALOGUE {
        for line in [record.formula, record.derivative] {
            match latex::formulas(line, record) {
                Err(e) => println!("ZZ {}: {e}", record.name),
                Ok(pieces) => {
                    for piece in &pieces {
                        match piece {
                            Piece::Math(l) => {
                                if converter
                                    .convert_with_local_counter(l, MathDisplay::Block)
                                    .is_err()
                                {
                                    println!("ZZ {}: bad {l}", record.name)
                                }
                            }
                            Piece::Text(words) => {
                                let plain =
                                    |c: char| c.is_ascii_alphanumeric() || " ,:'`_-".contains(c);
                                if !words.chars().all(plain) {
                                    println!("ZZ {}: {words:?} of {line:?}", record.name)
                                }
                            }
                        }
                    }
                }
            }
        }
        let plain =
            |text: &str| text.replace('\\', "").split_whitespace().collect::<Vec<_>>().join(" ");
        let said = plain(record.sources().function.unwrap().documentation);
        if !said.contains(&plain(record.conventions)) {
            println!("ZZ conv {}: {:?}", record.name, record.conventions)
        }
        let domain = plain(record.domain);
        if !(domain == "all numbers" || said.contains(&domain)) {
            println!("ZZ dom {}: {:?}", record.name, record.domain)
        }
    }
}
