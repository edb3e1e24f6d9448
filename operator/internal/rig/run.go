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

// StartManager starts kube-controller-manager beside it, which empties namespaces, and
// returns what kills it and starts it again.
func (c *Cluster) StartManager() (again func() error, err error) {
	if err := c.startManager(); err != nil {
		return nil, err
	}
	p := c.running[len(c.running)-1]
	return func() error {
		p.kill()
		return p.start()
	}, nil
}

// Stop ends what Start has started.
func (c *Cluster) Stop() { c.stop() }
