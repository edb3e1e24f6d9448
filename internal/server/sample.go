// SPDX-License-Identifier: Apache-2.0

package server

import "slices"

// sample is one counter or gauge, or one histogram, with its labels.
type sample struct {
	labels  map[string]string
	value   float64
	count   uint64   // of a histogram
	buckets []bucket // of a histogram, in their order
}

// bucket is how many observations were at most so many seconds.
type bucket struct {
	most  float64
	count uint64
}

// samples are the metrics as they are now, by name. What cannot be measured is not
// among them.
func (m *Metrics) samples() map[string][]sample {
	families, _ := m.all.Gather() // one that fails does not hide the others
	all := make(map[string][]sample, len(families))
	for _, f := range families {
		for _, x := range f.GetMetric() {
			s := sample{labels: map[string]string{}, value: x.GetCounter().GetValue() + x.GetGauge().GetValue()} // it is one of them
			for _, l := range x.GetLabel() {
				s.labels[l.GetName()] = l.GetValue()
			}
			if h := x.GetHistogram(); h != nil {
				s.count = h.GetSampleCount()
				for _, b := range h.GetBucket() {
					s.buckets = append(s.buckets, bucket{b.GetUpperBound(), b.GetCumulativeCount()})
				}
			}
			all[f.GetName()] = append(all[f.GetName()], s)
		}
	}
	return all
}

// within is the bound in seconds that 95 of 100 observations keep; false: none that
// is measured.
func (s sample) within() (float64, bool) {
	i := slices.IndexFunc(s.buckets, func(b bucket) bool { return float64(b.count) >= .95*float64(s.count) })
	if i < 0 || s.count == 0 {
		return 0, false
	}
	return s.buckets[i].most, true
}

// total adds up the samples whose label has a value; "" as the label: all of them.
func total(samples []sample, label, value string) (n int) {
	for _, s := range samples {
		if label == "" || s.labels[label] == value {
			n += int(s.value)
		}
	}
	return n
}
