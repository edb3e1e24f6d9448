// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/seed-141914ff/okara/internal/addr"
	"github.com/seed-141914ff/okara/internal/depot"
	"github.com/seed-141914ff/okara/oci"
)

// showHeld shows a version that a scan or an approval rule keeps back: it has a
// candidate tag only. The error wraps oci.ErrNotFound if there is none.
func showHeld(ctx context.Context, d *depot.Depot, r *oci.Repo, it addr.Selection) (shown, error) {
	v, err := addr.ParseVersion(it.Versions)
	if err != nil {
		return shown{}, err
	}
	candidates, err := d.Candidates(ctx, r)
	if err != nil {
		return shown{}, err
	}
	for _, c := range candidates {
		if c.Version != v {
			continue
		}
		s, err := showTag(ctx, &depot.Listing{Repository: r}, it, v, c.Tag)
		if err != nil {
			return shown{}, err
		}
		s.Held, err = heldReason(ctx, d, it, v, s.Scan)
		return s, err
	}
	return shown{}, fmt.Errorf("%s has no version %s: %w", r, v, oci.ErrNotFound)
}

// heldReason is what the depot's record says, or else what the reports say.
func heldReason(ctx context.Context, d *depot.Depot, it addr.Selection, v addr.Version, scan string) (string, error) {
	rec, err := d.Record(ctx)
	if err != nil {
		return "", err
	}
	name := it.Module.String()
	if it.Kind != addr.KindModule {
		name = it.Provider.String()
	}
	if vr, ok := rec.Entries[it.Kind+" "+name][v.String()]; ok && vr.Reason != "" {
		return string(vr.State) + ": " + vr.Reason, nil
	}
	if scan != "" {
		return "not published; the newest scan found " + scan, nil
	}
	return "not published", nil
}

// scanText sums up the newest scan report of a module or of the platforms of a
// provider; "" if there is none.
func scanText(ctx context.Context, r *oci.Repo, subjects []oci.Descriptor) (string, error) {
	var worst oci.ScanSummary
	found := false
	for _, subject := range subjects {
		s, ok, err := r.NewestScan(ctx, subject)
		if err != nil {
			return "", err
		}
		if !ok {
			continue
		}
		found = true
		worst.Tool, worst.Time = s.Tool, s.Time
		worst.Critical, worst.High = max(worst.Critical, s.Critical), max(worst.High, s.High)
		worst.Medium, worst.Low = max(worst.Medium, s.Medium), max(worst.Low, s.Low)
	}
	if !found {
		return "", nil
	}
	return fmt.Sprintf("%d critical, %d high, %d medium, %d low (%s, %s)",
		worst.Critical, worst.High, worst.Medium, worst.Low, worst.Tool, worst.Time.UTC().Format("2006-01-02")), nil
}
