// SPDX-License-Identifier: Apache-2.0

package prices

import (
	"errors"
	"fmt"
	"math"

	"github.com/prometheus/common/model"

	"berth.dev/berth/internal/mix/capacity"
)

// offeringPrice is what an offering of Karpenter costs an hour. Karpenter's providers export it, with 0 where they have no price; its core
// does not.
const offeringPrice = "karpenter_cloudprovider_instance_type_offering_price_estimate"

const (
	typeLabel     model.LabelName = "instance_type"
	capacityLabel model.LabelName = "capacity_type"
	zoneLabel     model.LabelName = "zone"
)

// Values of Karpenter's label of capacity types. What is reserved is paid for whether it is used or not.
const (
	Reserved         = capacity.KarpenterReserved
	capacityOnDemand = "on-demand"
	capacitySpot     = "spot"
)

var karpenterOfferings = kind{
	program: "Karpenter's offerings", origin: OriginKarpenter, read: readOfferings,
	metrics: []metric{{offeringPrice, []string{string(typeLabel), string(capacityLabel), string(zoneLabel)}}},
}

// offerings are the prices of Karpenter by instance type and zone.
type offerings map[offering]row

type offering struct{ instanceType, zone string }

func readOfferings(samples map[string]model.Vector, _ *Source) (source, string, error) {
	all := offerings{}
	for _, s := range samples[offeringPrice] {
		price, err := priceOf(s)
		if err != nil {
			return nil, "", err
		}
		at := offering{string(s.Metric[typeLabel]), string(s.Metric[zoneLabel])}
		if at.instanceType == "" || at.zone == "" {
			return nil, "", fmt.Errorf("%s: want the labels %s and %s", seriesOf(s), typeLabel, zoneLabel)
		}
		r := all[at]
		switch s.Metric[capacityLabel] {
		case capacityOnDemand:
			r.onDemand = max(r.onDemand, price)
		case capacitySpot:
			r.spot = max(r.spot, price)
		}
		all[at] = r
	}
	note, err := all.dropSynthetic()
	return all, note, err
}

// syntheticSpot is the part of the on-demand price that each spot price of Karpenter's provider for KWOK is. It is that of no market.
const syntheticSpot = 0.7

// dropSynthetic removes spot prices that are made of the on-demand price, or returns an error where all are.
func (o offerings) dropSynthetic() (note string, err error) {
	pairs, dropped := 0, 0
	for at, r := range o {
		if r.onDemand == 0 || r.spot == 0 {
			continue
		}
		pairs++
		if math.Abs(r.spot-syntheticSpot*r.onDemand) <= 1e-9*r.onDemand {
			dropped++
			r.spot = 0
			o[at] = r
		}
	}
	switch dropped {
	case 0:
		return "", nil
	case pairs:
		return "", errors.New("each spot price is 0.7 of the on-demand price: they are those of Karpenter's provider for KWOK, and of no market")
	}
	return fmt.Sprintf("%d of %d spot prices are 0.7 of the on-demand price, as those of Karpenter's provider for KWOK are. They are not used.",
		dropped, pairs), nil
}

// amounts implements source.
func (o offerings) amounts(n *Node) (onDemand, spot float64) {
	r := o[offering{n.InstanceType, n.Zone}]
	return r.onDemand, r.spot
}
