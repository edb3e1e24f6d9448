// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strconv"
	"sync"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/seed-141914ff/okara/internal/depot"
)

// progress returns a function that draws a bar for each upload, nil where bars
// are not wanted. done removes the bars.
func (a *app) progress() (report func(depot.Event), done func()) {
	if !a.terminal() {
		return nil, func() {}
	}
	var mu sync.Mutex // guards bars
	bars := map[string]*mpb.Bar{}
	p := mpb.New(mpb.WithOutput(a.err), mpb.WithWidth(60))
	report = func(e depot.Event) {
		mu.Lock()
		defer mu.Unlock()
		// Two blobs of one item differ in size at least.
		key := e.Item + " " + strconv.FormatInt(e.Total, 10)
		bar := bars[key]
		if bar == nil {
			bar = p.AddBar(e.Total, mpb.BarRemoveOnComplete(),
				mpb.PrependDecorators(decor.Name(e.Item+" ")), mpb.AppendDecorators(decor.Counters(decor.SizeB1024(0), "% .1f / % .1f")))
			bars[key] = bar
		}
		bar.IncrInt64(e.Bytes)
	}
	return report, sync.OnceFunc(func() {
		mu.Lock()
		defer mu.Unlock()
		for _, bar := range bars {
			bar.Abort(true)
		}
		p.Wait()
	})
}
