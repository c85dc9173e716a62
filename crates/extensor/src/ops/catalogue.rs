//! The catalogue: one explicit list of all operations.
//!
//! Whatever must hold for all of them is a loop over it.

use super::operation::{Operation, Outputs, apply};
use super::params::Params;
use super::record::{Count, Record};
use super::reduction::Rule;
use super::{additive, arithmetic, clip, elementwise, matrix, predicates};
use super::{axes, cast, filling, indexing, joining, scatter, slicing, split, triangle, views};
use super::{reduction, reduction_extremes, reduction_product, reduction_scan, reduction_spread};
use crate::{Error, Result, Tensor};

/// Every operation there is.
pub static CATALOGUE: &[&Record] = &[
    // arithmetic
    additive::Add::RECORD,
    additive::Subtract::RECORD,
    arithmetic::Multiply::RECORD,
    arithmetic::Divide::RECORD,
    arithmetic::Power::RECORD,
    arithmetic::FloorDivide::RECORD,
    arithmetic::Modulo::RECORD,
    arithmetic::Maximum::RECORD,
    arithmetic::Minimum::RECORD,
    additive::Negate::RECORD,
    additive::Where::RECORD,
    predicates::Equal::RECORD,
    predicates::NotEqual::RECORD,
    predicates::Less::RECORD,
    predicates::LessEqual::RECORD,
    predicates::Greater::RECORD,
    predicates::GreaterEqual::RECORD,
    predicates::LogicalAnd::RECORD,
    predicates::LogicalOr::RECORD,
    predicates::LogicalXor::RECORD,
    predicates::LogicalNot::RECORD,
    // elementwise
    elementwise::Exp::RECORD,
    elementwise::Expm1::RECORD,
    elementwise::Log::RECORD,
    elementwise::Log1p::RECORD,
    elementwise::Log2::RECORD,
    elementwise::Log10::RECORD,
    elementwise::Sqrt::RECORD,
    elementwise::Rsqrt::RECORD,
    elementwise::Square::RECORD,
    elementwise::Reciprocal::RECORD,
    elementwise::Abs::RECORD,
    elementwise::Sign::RECORD,
    elementwise::Sin::RECORD,
    elementwise::Cos::RECORD,
    elementwise::Tan::RECORD,
    elementwise::Asin::RECORD,
    elementwise::Acos::RECORD,
    elementwise::Atan::RECORD,
    elementwise::Sinh::RECORD,
    elementwise::Cosh::RECORD,
    elementwise::Asinh::RECORD,
    elementwise::Acosh::RECORD,
    elementwise::Atanh::RECORD,
    elementwise::Erf::RECORD,
    elementwise::Erfc::RECORD,
    elementwise::Ceil::RECORD,
    elementwise::Floor::RECORD,
    elementwise::Round::RECORD,
    elementwise::Trunc::RECORD,
    clip::Clip::RECORD,
    predicates::IsNan::RECORD,
    predicates::IsInf::RECORD,
    predicates::IsFinite::RECORD,
    // matrix
    matrix::MatMul::RECORD,
    matrix::Dot::RECORD,
    matrix::Outer::RECORD,
    matrix::Linear::RECORD,
    views::Transpose::RECORD,
    // reduction
    reduction::Sum::RECORD,
    reduction::Mean::RECORD,
    reduction_extremes::Max::RECORD,
    reduction_extremes::Min::RECORD,
    reduction_product::Prod::RECORD,
    reduction_spread::Variance::RECORD,
    reduction_spread::Std::RECORD,
    reduction_spread::LogSumExp::RECORD,
    reduction_spread::Norm::RECORD,
    reduction_scan::Cumsum::RECORD,
    reduction_extremes::ArgMax::RECORD,
    reduction_extremes::ArgMin::RECORD,
    reduction_extremes::Any::RECORD,
    reduction_extremes::All::RECORD,
    // shape
    views::Reshape::RECORD,
    views::BroadcastTo::RECORD,
    axes::Squeeze::RECORD,
    axes::ExpandDims::RECORD,
    axes::Flatten::RECORD,
    slicing::Slice::RECORD,
    slicing::Flip::RECORD,
    split::Split::RECORD,
    joining::Concatenate::RECORD,
    joining::Stack::RECORD,
    filling::Tile::RECORD,
    filling::Pad::RECORD,
    triangle::Tril::RECORD,
    triangle::Triu::RECORD,
    cast::Cast::RECORD,
    // indexing
    indexing::Gather::RECORD,
    indexing::Take::RECORD,
    indexing::Embedding::RECORD,
    scatter::ScatterAdd::RECORD,
    scatter::OneHot::RECORD,
];

/// The record of this name.
///
/// ```
/// assert_eq!(extensor::catalogue::find("exp")?.formula, "y = eˣ");
/// assert!(extensor::catalogue::find("expp").is_err());
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn find(name: &str) -> Result<&'static Record> {
    let found = CATALOGUE.iter().copied().find(|r| r.name == name);
    found.ok_or_else(|| Error::UnknownOperation {
        name: name.to_string(),
    })
}

impl Record {
    /// The operation with these parameters; a name that is not one of its parameters is an error.
    pub fn operation(&self, params: &Params) -> Result<Box<dyn Operation>> {
        params.expect_known(self)?;
        (self.build)(params)
    }

    /// Calls the operation.
    pub fn call(&self, inputs: &[&Tensor], params: &Params) -> Result<Outputs> {
        self.expect_inputs(inputs.len())?;
        apply(&*self.operation(params)?, inputs)
    }

    /// An error unless the operation takes `count` inputs.
    pub fn expect_inputs(&self, count: usize) -> Result<()> {
        let many = self.inputs.iter().any(|i| i.count == Count::Many);
        let least = self
            .inputs
            .iter()
            .filter(|i| i.count != Count::Optional)
            .count();
        if count >= least && (many || count <= self.inputs.len()) {
            return Ok(());
        }
        let names: Vec<&str> = self.inputs.iter().map(|i| i.name).collect();
        let (expected, plural) = (names.join(", "), if count == 1 { "" } else { "s" });
        Err(Error::Inputs {
            op: self.name,
            expected,
            got: format!("{count} tensor{plural}"),
        })
    }
}
