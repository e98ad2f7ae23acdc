"""Three workflows: a nightly load with an approval, an order that is undone when it fails, and a training within a training."""
