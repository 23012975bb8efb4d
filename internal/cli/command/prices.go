// SPDX-License-Identifier: Apache-2.0

package command

import (
	"fmt"

	"github.com/spf13/cobra"

	"berth.dev/berth/internal/mix/pricefeed"
	"berth.dev/berth/internal/mix/prices"
)

// Prices are the user's own prices, as flags.
type Prices struct {
	// File is the name of a file of prices, "" for none.
	File string
	// Discount is the percentage of the on-demand prices of lists that the user does not pay.
	Discount float64
}

// Flags adds the flags.
func (p *Prices) Flags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&p.File, "prices", "", "A file with your prices, as YAML or JSON. See docs/savings.md.")
	flags.Float64Var(&p.Discount, "discount", 0, "By how many percent your on-demand prices are lower than those of public lists.")
}

// Check returns an error for a flag that is out of its bounds.
func (p *Prices) Check() error {
	if !(p.Discount >= 0 && p.Discount < 100) {
		return fmt.Errorf("--discount is %v: it must be at least 0 and less than 100", p.Discount)
	}
	return nil
}

// Book reads the prices of the file, if there is one, and those that are built in.
func (p *Prices) Book() (*prices.Book, error) {
	options, err := p.Options()
	if err != nil {
		return nil, err
	}
	return prices.New(options)
}

// Own is what the flags name.
func (p *Prices) Own() pricefeed.Own { return pricefeed.Own{File: p.File, Discount: p.Discount} }

// Options reads the prices of the file, if there is one.
func (p *Prices) Options() (prices.Options, error) {
	own := p.Own()
	return own.Options()
}
