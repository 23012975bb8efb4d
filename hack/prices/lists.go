// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// number is a JSON number, or a string that has one.
type number float64

// UnmarshalJSON implements json.Unmarshaler. What has no number is 0: there is no price.
func (n *number) UnmarshalJSON(data []byte) error { //nolint:unparam // as the interface has it
	f, err := strconv.ParseFloat(strings.Trim(string(data), `"`), 64)
	if err == nil {
		*n = number(f)
	}
	return nil
}

// instance is an instance type of ec2instances.info.
type instance struct {
	InstanceType string `json:"instance_type"`
	Pricing      map[string]struct {
		Linux *struct {
			OnDemand  number `json:"ondemand"`
			SpotAvg   number `json:"spot_avg"`
			SpotMin   number `json:"spot_min"`
			Interrupt string `json:"pct_interrupt"`
		} `json:"linux"`
	} `json:"pricing"`
}

// bands are how often a type is interrupted in a month, as AWS publishes it.
var bands = map[string]int{"<5%": 1, "5-10%": 2, "10-15%": 3, "15-20%": 4, ">20%": 5}

// region is one of a country, without the local zones of which nodes have the label of their region.
var region = regexp.MustCompile(`^[a-z]+(-[a-z]+)+-\d+$`)

func amazon(data []byte) ([]price, error) {
	return instances(data, func(r string) string {
		if region.MatchString(r) {
			return r
		}
		return ""
	})
}

// azureRegions are the names of regions on nodes, by those of the list.
var azureRegions = map[string]string{
	"us-east": "eastus", "us-east-2": "eastus2", "us-west": "westus", "us-west-2": "westus2", "us-west-3": "westus3",
	"us-central": "centralus", "us-north-central": "northcentralus", "us-south-central": "southcentralus", "us-west-central": "westcentralus",
	"europe-west": "westeurope", "europe-north": "northeurope", "asia-pacific-east": "eastasia", "asia-pacific-southeast": "southeastasia",
	"japan-east": "japaneast", "japan-west": "japanwest", "united-kingdom-south": "uksouth", "united-kingdom-west": "ukwest",
	"australia-east": "australiaeast", "australia-southeast": "australiasoutheast", "australia-central": "australiacentral",
	"australia-central-2": "australiacentral2", "central-india": "centralindia", "south-india": "southindia", "west-india": "westindia",
	"germany-west-central": "germanywestcentral", "germany-north": "germanynorth", "canada-central": "canadacentral", "canada-east": "canadaeast",
	"switzerland-north": "switzerlandnorth", "switzerland-west": "switzerlandwest", "sweden-central": "swedencentral", "sweden-south": "swedensouth",
	"uae-north": "uaenorth", "uae-central": "uaecentral", "france-central": "francecentral", "france-south": "francesouth",
	"brazil-south": "brazilsouth", "brazil-southeast": "brazilsoutheast", "korea-central": "koreacentral", "korea-south": "koreasouth",
	"south-africa-north": "southafricanorth", "south-africa-west": "southafricawest", "qatar-central": "qatarcentral",
	"norway-east": "norwayeast", "norway-west": "norwaywest", "usgov-virginia": "usgovvirginia", "usgov-arizona": "usgovarizona",
	"usgov-texas": "usgovtexas",
}

func azure(data []byte) ([]price, error) {
	return instances(data, func(r string) string { return azureRegions[r] })
}

// instances reads a list of ec2instances.info. The name of a region on nodes is empty for one that is left out.
func instances(data []byte, nameOf func(region string) string) (all []price, err error) {
	var list []instance
	if err := json.Unmarshal(data, &list); err != nil {
		return nil, err
	}
	seen := map[[2]string]bool{}
	for _, i := range list {
		for r, p := range i.Pricing {
			name := nameOf(r)
			key := [2]string{i.InstanceType, name}
			if p.Linux == nil || name == "" || p.Linux.OnDemand <= 0 || seen[key] {
				continue
			}
			seen[key] = true
			spot := p.Linux.SpotAvg
			if spot <= 0 {
				spot = p.Linux.SpotMin
			}
			if spot >= p.Linux.OnDemand {
				spot = 0 // an error of the list
			}
			all = append(all, price{i.InstanceType, name, float64(p.Linux.OnDemand), float64(spot), bands[p.Linux.Interrupt]})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no price in %d instance types", len(list))
	}
	return all, nil
}

var (
	karpenterRegion = regexp.MustCompile(`^\t"([a-z0-9-]+)": \{$`)
	karpenterPrice  = regexp.MustCompile(`"([a-z0-9.-]+)": (\d+\.\d+)`)
)

// karpenter reads the prices that Karpenter's provider starts with: a Go file.
func karpenter(data []byte) (all []price, err error) {
	in := ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		if found := karpenterRegion.FindStringSubmatch(line); found != nil {
			in = found[1]
			continue
		}
		for _, found := range karpenterPrice.FindAllStringSubmatch(line, -1) {
			dollars, err := strconv.ParseFloat(found[2], 64)
			if err != nil {
				return nil, err
			}
			if in == "" {
				return nil, fmt.Errorf("the price of %s is in no region", found[1])
			}
			all = append(all, price{instanceType: found[1], region: in, onDemand: dollars})
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("no price found")
	}
	return all, nil
}
