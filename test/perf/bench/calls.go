// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Paced makes n calls, so many a second, each beside the others: one that is
// slow does not hold up the next. It returns how long each took; what went wrong
// ends nothing but is returned.
func Paced(n, perSecond int, call func(i int) error) ([]time.Duration, error) {
	took, failed := make([]time.Duration, n), make([]error, n)
	var all sync.WaitGroup
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for i := range n {
		<-tick.C
		all.Go(func() {
			began := time.Now()
			failed[i] = call(i)
			took[i] = time.Since(began)
		})
	}
	all.Wait()
	return took, errors.Join(failed...)
}

// Saturated makes n calls as fast as so many workers can, each one after the
// other. It returns how long each took, and all of them together. The first that
// goes wrong is the last that is begun.
func Saturated(workers, n int, call func(i int) error) (took []time.Duration, all time.Duration, err error) {
	took = make([]time.Duration, n)
	var g errgroup.Group
	next := make(chan int)
	stop := make(chan struct{})
	var once sync.Once
	began := time.Now()
	for range workers {
		g.Go(func() error {
			for i := range next {
				start := time.Now()
				if err := call(i); err != nil {
					once.Do(func() { close(stop) })
					return err
				}
				took[i] = time.Since(start)
			}
			return nil
		})
	}
informers:
	for i := range n {
		select {
		case next <- i:
		case <-stop:
			break informers
		}
	}
	close(next)
	err = g.Wait()
	return took, time.Since(began), err
}

// Milliseconds are the times as numbers, for quantiles.
func Milliseconds(of []time.Duration) []float64 {
	list := make([]float64, len(of))
	for i, d := range of {
		list[i] = float64(d) / float64(time.Millisecond)
	}
	return list
}
