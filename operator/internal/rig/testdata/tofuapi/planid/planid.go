// SPDX-License-Identifier: Apache-2.0

// Package planid names plans.
package planid

import "strings"

// GetPlanID names a plan after the revision that it was made of: a digest, perhaps
// behind the name of a branch or tag.
func GetPlanID(revision string) string {
	name, sum, found := strings.Cut(revision, "@")
	if !found {
		name, sum = "", revision
	}
	_, hex, _ := strings.Cut(sum, ":")
	return "plan-" + strings.NewReplacer("/", "-", ":", "-").Replace(name) + "-" + hex[:min(10, len(hex))]
}

// GetApproveMessage tells how a plan is approved.
func GetApproveMessage(id, message string) string {
	return message + `: set approvePlan to "` + id + `" to approve it`
}
