// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"errors"

	"k8s.io/client-go/rest"
)

// Start starts the cluster for a program that is no test, and returns what connects to
// it with every right. Stop ends it.
func (c *Cluster) Start() (*rest.Config, error) {
	if err := c.start(); err != nil {
		c.stop()
		return nil, errors.Join(errors.New("no cluster"), err)
	}
	return rest.CopyConfig(c.admin), nil
}

// Stop ends what Start has started.
func (c *Cluster) Stop() { c.stop() }
