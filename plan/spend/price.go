package spend

import (
	"math"
	"math/big"

	"foundry/plan"
)

// price is the dearest and the cheapest token of a model, in micro-USD: USD for
// a million tokens is micro-USD for one.
type price struct {
	model    string
	max, min *big.Rat
}

// pricesOf finds the price of each harness that the broker pays for. A harness
// without a provider has none, nor has one with a login of its own.
func pricesOf(p *plan.Plan) map[string]*price {
	models := map[[2]string]*price{}
	for _, provider := range p.Providers {
		for _, m := range provider.Models {
			if pr := priceOf(m); pr != nil {
				models[[2]string{provider.Name, m.ID}] = pr
			}
		}
	}
	out := map[string]*price{}
	for _, h := range p.Harnesses {
		if pr := models[[2]string{h.Provider, h.Model}]; pr != nil && h.AuthStore == "" {
			out[h.Name] = pr
		}
	}
	return out
}

// priceOf is nil where a price is no number, of which nothing can be said.
func priceOf(m plan.Model) *price {
	out := &price{model: m.ID}
	for _, text := range []string{m.Price.Input, m.Price.Output, m.Price.CacheRead, m.Price.CacheWrite} {
		r, ok := new(big.Rat).SetString(text)
		if !ok || r.Sign() < 0 {
			return nil
		}
		if out.max == nil || r.Cmp(out.max) > 0 {
			out.max = r
		}
		if out.min == nil || r.Cmp(out.min) < 0 {
			out.min = r
		}
	}
	return out
}

// dearest is the most that so many tokens can cost, rounded up.
func (p *price) dearest(tokens int64) int64 {
	r := new(big.Rat).Mul(p.max, new(big.Rat).SetInt64(tokens))
	up := new(big.Int).Add(r.Num(), new(big.Int).Sub(r.Denom(), big.NewInt(1)))
	return whole(up.Div(up, r.Denom()))
}

// cheapest is the most tokens that so much money can buy.
func (p *price) cheapest(cost int64) int64 {
	if p.min.Sign() == 0 {
		return math.MaxInt64
	}
	q := new(big.Rat).Quo(new(big.Rat).SetInt64(cost), p.min)
	return whole(new(big.Int).Quo(q.Num(), q.Denom()))
}

func whole(n *big.Int) int64 {
	if !n.IsInt64() {
		return math.MaxInt64
	}
	return n.Int64()
}
