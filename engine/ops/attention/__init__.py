"""Attention: softmax(q k') v."""
