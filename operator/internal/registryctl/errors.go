// SPDX-License-Identifier: Apache-2.0

package registryctl

import (
	"errors"

	"github.com/seed-141914ff/okara/internal/supply"
	"github.com/seed-141914ff/okara/oci"
	"github.com/seed-141914ff/okara/operator/api/v1alpha1"
)

func asProblem(err error) (*problem, bool) { return errors.AsType[*problem](err) }

// reasonOf classifies an error that another try may cure.
func reasonOf(err error) string {
	if errors.Is(err, oci.ErrRateLimited) {
		return v1alpha1.ReasonRateLimited
	}
	return v1alpha1.ReasonFailed
}

// problemOf turns what trying again does not cure into a *problem.
func problemOf(err error) error {
	if taken, ok := errors.AsType[*supply.OwnerError](err); ok {
		return &problem{v1alpha1.ReasonAddressTaken, taken.Entry +
			" has versions of another namespace, perhaps of an earlier one of this name: an administrator can give the address to this one by " + v1alpha1.AnnotationAddresses}
	}
	return err
}
