//! The catalogue: one explicit list of all operations.
//!
//! Whatever must hold for every operation is a loop over it.

use super::activation::softmax::Rule as _;
use super::operation::{Operation, Outputs, apply};
use super::params::Params;
use super::record::{Count, Record};
use super::reduction::Rule;
use super::source::{Name, Noted, Sources, backward_function, hash};
use super::{activation, arithmetic, attention, convolution, dropout, elementwise, linalg, loss};
use super::{matrix, normalization, pooling, reduction, shape};
use crate::{Error, Result, Tensor};

/// The list, and beside it where each operation's functions are: those that `#[method]` and `#[noted]`
/// stand above. (A record whose function has neither does not compile: `Noted` is not implemented.)
macro_rules! catalogue {
    ($($record:expr,)*) => {
        /// Every operation there is.
        pub static CATALOGUE: &[&Record] = &[$($record),*];

        /// The functions of each operation.
        static SOURCES: &[(&str, Sources)] = &[$((
            $record.name,
            Sources {
                function: <Name<{ hash($record.name) }> as Noted>::SOURCE,
                backward: <Name<{ hash(backward_function($record)) }> as Noted>::SOURCE,
            },
        )),*];
    };
}

catalogue! {
    // arithmetic
    arithmetic::additive::Add::RECORD,
    arithmetic::additive::Subtract::RECORD,
    arithmetic::products::Multiply::RECORD,
    arithmetic::products::Divide::RECORD,
    arithmetic::products::Power::RECORD,
    arithmetic::products::FloorDivide::RECORD,
    arithmetic::products::Modulo::RECORD,
    arithmetic::ieee::Fmod::RECORD,
    arithmetic::products::Maximum::RECORD,
    arithmetic::products::Minimum::RECORD,
    arithmetic::ieee::Fmax::RECORD,
    arithmetic::ieee::Fmin::RECORD,
    arithmetic::planar::Atan2::RECORD,
    arithmetic::planar::Hypot::RECORD,
    arithmetic::planar::LogAddExp::RECORD,
    arithmetic::planar::CopySign::RECORD,
    arithmetic::planar::XLogY::RECORD,
    arithmetic::planar::XLog1pY::RECORD,
    arithmetic::bits::NextAfter::RECORD,
    arithmetic::bits::BitwiseAnd::RECORD,
    arithmetic::bits::BitwiseOr::RECORD,
    arithmetic::bits::BitwiseXor::RECORD,
    arithmetic::bits::BitwiseLeftShift::RECORD,
    arithmetic::bits::BitwiseRightShift::RECORD,
    arithmetic::additive::Negate::RECORD,
    arithmetic::additive::Where::RECORD,
    arithmetic::ternary::Lerp::RECORD,
    arithmetic::ternary::AddCMul::RECORD,
    arithmetic::ternary::AddCDiv::RECORD,
    arithmetic::predicates::Equal::RECORD,
    arithmetic::predicates::NotEqual::RECORD,
    arithmetic::predicates::Less::RECORD,
    arithmetic::predicates::LessEqual::RECORD,
    arithmetic::predicates::Greater::RECORD,
    arithmetic::predicates::GreaterEqual::RECORD,
    arithmetic::predicates::LogicalAnd::RECORD,
    arithmetic::predicates::LogicalOr::RECORD,
    arithmetic::predicates::LogicalXor::RECORD,
    arithmetic::predicates::LogicalNot::RECORD,
    // elementwise
    elementwise::functions::Exp::RECORD,
    elementwise::functions::Exp2::RECORD,
    elementwise::functions::Expm1::RECORD,
    elementwise::functions::Log::RECORD,
    elementwise::functions::Log1p::RECORD,
    elementwise::functions::Log2::RECORD,
    elementwise::functions::Log10::RECORD,
    elementwise::functions::Sqrt::RECORD,
    elementwise::functions::Cbrt::RECORD,
    elementwise::functions::Rsqrt::RECORD,
    elementwise::functions::Square::RECORD,
    elementwise::functions::Reciprocal::RECORD,
    elementwise::functions::Abs::RECORD,
    elementwise::functions::Sign::RECORD,
    elementwise::functions::Sin::RECORD,
    elementwise::functions::Cos::RECORD,
    elementwise::functions::Tan::RECORD,
    elementwise::functions::Asin::RECORD,
    elementwise::functions::Acos::RECORD,
    elementwise::functions::Atan::RECORD,
    elementwise::functions::Sinh::RECORD,
    elementwise::functions::Cosh::RECORD,
    elementwise::functions::Asinh::RECORD,
    elementwise::functions::Acosh::RECORD,
    elementwise::functions::Atanh::RECORD,
    elementwise::functions::Erf::RECORD,
    elementwise::functions::Erfc::RECORD,
    elementwise::functions::Ceil::RECORD,
    elementwise::functions::Floor::RECORD,
    elementwise::functions::Round::RECORD,
    elementwise::functions::Trunc::RECORD,
    elementwise::clip::Clip::RECORD,
    elementwise::nan_to_num::NanToNum::RECORD,
    elementwise::special::Logit::RECORD,
    elementwise::special::Sinc::RECORD,
    elementwise::special::Entr::RECORD,
    elementwise::gamma::Lgamma::RECORD,
    elementwise::gamma::Digamma::RECORD,
    elementwise::gamma::Polygamma::RECORD,
    elementwise::normal::Erfinv::RECORD,
    elementwise::normal::Ndtr::RECORD,
    elementwise::normal::Ndtri::RECORD,
    elementwise::normal::LogNdtr::RECORD,
    elementwise::bessel::I0::RECORD,
    elementwise::bessel::I0e::RECORD,
    elementwise::bessel::I1::RECORD,
    elementwise::bessel::I1e::RECORD,
    arithmetic::bits::BitwiseInvert::RECORD,
    arithmetic::bits::SignBit::RECORD,
    arithmetic::predicates::IsNan::RECORD,
    arithmetic::predicates::IsInf::RECORD,
    arithmetic::predicates::IsFinite::RECORD,
    // matrix
    matrix::matmul::MatMul::RECORD,
    matrix::vectors::Dot::RECORD,
    matrix::vectors::Outer::RECORD,
    matrix::linear::Linear::RECORD,
    matrix::einsum::Einsum::RECORD,
    matrix::distances::Cdist::RECORD,
    shape::views::Transpose::RECORD,
    // linalg
    linalg::cholesky::Cholesky::RECORD,
    linalg::triangular::SolveTriangular::RECORD,
    linalg::solve::Solve::RECORD,
    linalg::solve::Inv::RECORD,
    linalg::determinant::Det::RECORD,
    linalg::determinant::Slogdet::RECORD,
    linalg::orthogonal::Qr::RECORD,
    linalg::eigen::Eigh::RECORD,
    linalg::eigen::Eigvalsh::RECORD,
    linalg::singular::Svd::RECORD,
    linalg::singular::Svdvals::RECORD,
    linalg::pseudo::Pinv::RECORD,
    linalg::exponential::Expm::RECORD,
    // reduction
    reduction::Sum::RECORD,
    reduction::Mean::RECORD,
    reduction::extremes::Max::RECORD,
    reduction::extremes::Min::RECORD,
    reduction::product::Prod::RECORD,
    reduction::spread::Variance::RECORD,
    reduction::spread::Std::RECORD,
    reduction::spread::LogSumExp::RECORD,
    reduction::spread::Norm::RECORD,
    reduction::similarity::Cosine::RECORD,
    reduction::scan::Cumsum::RECORD,
    reduction::running::Cumprod::RECORD,
    reduction::log_running::LogCumsumExp::RECORD,
    shape::so_far::CumMax::RECORD,
    shape::so_far::CumMin::RECORD,
    reduction::extremes::ArgMax::RECORD,
    reduction::extremes::ArgMin::RECORD,
    reduction::extremes::Any::RECORD,
    reduction::extremes::All::RECORD,
    // shape
    shape::views::Reshape::RECORD,
    shape::views::BroadcastTo::RECORD,
    shape::axes::Squeeze::RECORD,
    shape::axes::ExpandDims::RECORD,
    shape::axes::Flatten::RECORD,
    shape::slicing::Slice::RECORD,
    shape::slicing::Flip::RECORD,
    shape::split::Split::RECORD,
    shape::joining::Concatenate::RECORD,
    shape::joining::Stack::RECORD,
    shape::filling::Tile::RECORD,
    shape::padding::Pad::RECORD,
    shape::repeating::Repeat::RECORD,
    shape::repeating::Roll::RECORD,
    shape::diagonal::Diagonal::RECORD,
    shape::diagonal::Diag::RECORD,
    shape::triangle::Tril::RECORD,
    shape::triangle::Triu::RECORD,
    shape::cast::Cast::RECORD,
    // indexing
    shape::indexing::Gather::RECORD,
    shape::indexing::Take::RECORD,
    shape::indexing::Embedding::RECORD,
    shape::scatter::ScatterAdd::RECORD,
    shape::put::Scatter::RECORD,
    shape::scatter::OneHot::RECORD,
    shape::sorting::Sort::RECORD,
    shape::sorting::ArgSort::RECORD,
    shape::sorting::SearchSorted::RECORD,
    shape::selecting::TopK::RECORD,
    shape::selecting::KthValue::RECORD,
    // activation
    activation::linear_units::Relu::RECORD,
    activation::linear_units::Relu6::RECORD,
    activation::linear_units::LeakyRelu::RECORD,
    activation::prelu::Prelu::RECORD,
    activation::linear_units::Elu::RECORD,
    activation::linear_units::Celu::RECORD,
    activation::linear_units::Selu::RECORD,
    activation::sigmoids::Sigmoid::RECORD,
    activation::sigmoids::Tanh::RECORD,
    activation::gelu::Gelu::RECORD,
    activation::sigmoids::Swish::RECORD,
    activation::sigmoids::Mish::RECORD,
    activation::sigmoids::Softplus::RECORD,
    activation::sigmoids::Softsign::RECORD,
    activation::sigmoids::LogSigmoid::RECORD,
    activation::piecewise::HardSigmoid::RECORD,
    activation::piecewise::HardSwish::RECORD,
    activation::piecewise::HardTanh::RECORD,
    activation::shrinking::Hardshrink::RECORD,
    activation::shrinking::Softshrink::RECORD,
    activation::shrinking::Tanhshrink::RECORD,
    activation::shrinking::Threshold::RECORD,
    activation::glu::Glu::RECORD,
    activation::softmax::Softmax::RECORD,
    activation::softmax::LogSoftmax::RECORD,
    // convolution
    convolution::Conv1d::RECORD,
    convolution::Conv2d::RECORD,
    convolution::Conv3d::RECORD,
    convolution::ConvTranspose1d::RECORD,
    convolution::ConvTranspose2d::RECORD,
    convolution::ConvTranspose3d::RECORD,
    convolution::Unfold::RECORD,
    convolution::Fold::RECORD,
    convolution::Interpolate::RECORD,
    convolution::GridSample::RECORD,
    // pooling
    pooling::maximum::MaxPool::LINES,
    pooling::maximum::MaxPool::PLANES,
    pooling::maximum::MaxPool::VOLUMES,
    pooling::maximum::MaxPool::EVEN_LINES,
    pooling::maximum::MaxPool::EVEN_PLANES,
    pooling::maximum::MaxPool::EVEN_VOLUMES,
    pooling::average::AvgPool::LINES,
    pooling::average::AvgPool::PLANES,
    pooling::average::AvgPool::VOLUMES,
    pooling::average::GlobalAvgPool2d::RECORD,
    pooling::adaptive_average::AdaptiveAvgPool::LINES,
    pooling::adaptive_average::AdaptiveAvgPool::PLANES,
    pooling::adaptive_average::AdaptiveAvgPool::VOLUMES,
    // normalization
    normalization::layer::LayerNorm::RECORD,
    normalization::layer::RmsNorm::RECORD,
    normalization::group::GroupNorm::RECORD,
    normalization::group::InstanceNorm::RECORD,
    normalization::batch::BatchNorm2d::RECORD,
    normalization::unit::Unit::RECORD,
    // attention
    attention::rule::Attention::RECORD,
    // dropout
    dropout::Dropout::RECORD,
    dropout::Dropout::CHANNELS_RECORD,
    // loss
    loss::distances::MeanSquaredError::RECORD,
    loss::distances::MeanAbsoluteError::RECORD,
    loss::distances::SmoothL1::RECORD,
    loss::distances::Huber::RECORD,
    loss::likelihoods::BinaryCrossEntropy::RECORD,
    loss::likelihoods::BinaryCrossEntropyWithLogits::RECORD,
    loss::cross_entropy::CrossEntropy::RECORD,
    loss::nll::NllLoss::RECORD,
    loss::labels::Hinge::RECORD,
    loss::labels::Focal::RECORD,
    loss::divergence::KlDivergence::RECORD,
    loss::regression::GaussianNll::RECORD,
    loss::regression::PoissonNll::RECORD,
    loss::ranking::MarginRanking::RECORD,
    loss::ctc::CtcLoss::RECORD,
}

/// The record of this name.
///
/// ```
/// assert_eq!(extensor::ops::catalogue::find("exp")?.formula, "y = eˣ");
/// assert!(extensor::ops::catalogue::find("expp").is_err());
/// # Ok::<(), extensor::Error>(())
/// ```
pub fn find(name: &str) -> Result<&'static Record> {
    let found = CATALOGUE.iter().copied().find(|r| r.name == name);
    found.ok_or_else(|| Error::UnknownOperation { name: name.to_string() })
}

/// What others call each operation.
static ALIASES: &[(&str, &[&str])] = extensor_derive::aliases!();

/// The operations that are called `name` in PyTorch, JAX or NumPy: several where it stands for
/// different things.
///
/// ```
/// use extensor::ops::catalogue::known_as;
/// let names = |name| known_as(name).map(|record| record.name).collect::<Vec<_>>();
/// assert_eq!(names("silu"), ["swish"]);
/// assert_eq!(names("max"), ["maximum", "max_reduce"]);
/// assert!(names("swish").is_empty());
/// // PyTorch's name for the same in place.
/// assert_eq!(names("clamp_"), ["clip"]);
/// ```
pub fn known_as(name: &str) -> impl Iterator<Item = &'static Record> {
    let elsewhere = move |record: &Record| {
        let in_place = name.strip_suffix('_').filter(|known| !known.is_empty());
        record.aliases().contains(&name)
            || in_place
                .is_some_and(|known| record.name == known || record.aliases().contains(&known))
    };
    CATALOGUE.iter().copied().filter(move |record| elsewhere(record))
}

impl Record {
    /// What others call the operation.
    pub fn aliases(&self) -> &'static [&'static str] {
        ALIASES.iter().find(|(name, _)| *name == self.name).map_or(&[], |(_, others)| others)
    }

    /// Its functions in Rust: how they are called, what their documentation says, where they are.
    pub fn sources(&self) -> &'static Sources {
        let found = SOURCES.iter().find(|(name, _)| *name == self.name);
        found.map_or(&Sources::NONE, |(_, sources)| sources)
    }

    /// The operation with these parameters; a name that is not one of its parameters is an error.
    pub fn operation(&self, params: &Params) -> Result<Box<dyn Operation>> {
        params.expect_known(self)?;
        (self.build)(params)
    }

    /// Calls the operation.
    #[track_caller]
    pub fn call(&self, inputs: &[&Tensor], params: &Params) -> Result<Outputs> {
        self.expect_inputs(inputs.len())?;
        apply(&*self.operation(params)?, inputs)
    }

    /// An error unless the operation takes `count` inputs.
    pub fn expect_inputs(&self, count: usize) -> Result<()> {
        let many = self.inputs.iter().any(|i| i.count == Count::Many);
        let least = self.inputs.iter().filter(|i| i.count != Count::Optional).count();
        if count >= least && (many || count <= self.inputs.len()) {
            return Ok(());
        }
        let names: Vec<&str> = self.inputs.iter().map(|i| i.name).collect();
        let (expected, plural) = (names.join(", "), if count == 1 { "" } else { "s" });
        Err(Error::Inputs { op: self.name, expected, got: format!("{count} tensor{plural}") })
    }
}
