// SPDX-License-Identifier: Apache-2.0

package prometheus

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"

	"berth.dev/berth/internal/records/nfr"
)

// textFormat is the only one that ReadPage requests.
const textFormat = "text/plain;version=0.0.4"

// ReadPage has a function read the metrics that a program serves at the address, within the time-out.
func ReadPage(ctx context.Context, c Config, read func(io.Reader) error) error {
	if err := checkAddress(c.Address); err != nil {
		return fmt.Errorf("address: %w", err)
	}
	httpClient, err := c.httpClient()
	if err != nil {
		return err
	}
	defer httpClient.CloseIdleConnections()
	timeout := cmp.Or(c.Timeout, nfr.QueryTimeout)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.Address, http.NoBody)
	if err != nil {
		return bare(err)
	}
	req.Header.Set("Accept", textFormat)
	resp, err := httpClient.Do(req)
	if err != nil {
		return classify(err, timeout)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the answer is %s", resp.Status)
	}
	return read(resp.Body)
}
