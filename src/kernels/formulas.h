#pragma once

#include "kernels/formulas/adagrad.h"
#include "kernels/formulas/adam.h"
#include "kernels/formulas/descent.h"
#include "kernels/formulas/lamb_direction.h"
#include "kernels/formulas/lion.h"
#include "kernels/formulas/muon_momentum.h"
#include "kernels/formulas/sgd.h"

namespace cairn::kernels {

/// The list of all formulas, passed to the template `List`.
template <template <class...> class List>
using Formulas = List<
    Adagrad,
    Adam<false>,
    Adam<true>,
    Descent,
    LambDirection,
    Lion,
    MuonMomentum,
    Sgd>;

} // namespace cairn::kernels
